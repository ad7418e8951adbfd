"""From a run of a recipe to the config that trains it: every number that training takes is the recipe's.

Three things differ from the published run, for `train/language_model` is another program:

* it is evaluated at even shares of the run, which are the marks that a forecast is scored at; the recipe's own cadence has a
  shorter last interval, and in one rung two evaluations for one mark;
* weight decay on gates and router, put on at step 58,014 there, is off: here it can only begin with the run;
* longer sequences and a mixture decided on the way are other runs, which go on from a checkpoint.
"""

from marin_exec import InputPath, Resources
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.recipe.recipe import Rung
from steps.train.language_model import OptimizerConfig, TrainConfig
from steps.train.watch_config import SpikeConfig, WatchConfig

EVALUATED_WITH_DROPS = 0.1
"""Share of a run up to which it is also evaluated as trained; the large run was until step 38,999."""


def model_config(run: Rung) -> ModelConfig:
    """Returns the model of a run, all features on."""
    recipe, geometry, shape = run.recipe, run.geometry, run.recipe.shape
    return ModelConfig(
        width=geometry.width,
        num_layers=geometry.num_layers,
        num_heads=geometry.num_heads,
        vocabulary_size=shape.vocabulary_size,
        sequence_length=shape.sequence_length,
        num_experts=shape.num_experts,
        experts_per_token=shape.experts_per_token,
        expert_width=geometry.expert_width,
        shared_width=geometry.expert_width,
        dispatch=PooledDispatch(
            num_shards=recipe.rack.devices,
            num_groups=run.mesh.racks,
            sender_capacity=recipe.capacity.sender,
            receiver_capacity=recipe.capacity.receiver,
            num_waves=recipe.capacity.waves,
        ),
        qk_scale=recipe.context.qk_mult,
        latent_width=geometry.expert_width,
        num_shared_experts=shape.num_shared,
        attention_head_width=shape.head_width,
        num_kv_heads=geometry.local_kv_heads,
        num_global_kv_heads=geometry.global_kv_heads,
        attention_window=shape.window,
        global_every=shape.global_every,
        rotary="half",
        gated_norm_rank=shape.gated_norm_rank,
        exclusive_attention=True,
        head_gates=True,
        convolution_taps=shape.convolution_taps,
        balancing="histogram",
    )


def optimizer_config(run: Rung) -> OptimizerConfig:
    """Returns the optimiser of a run; the norm is kept over a layer's experts together, as in the published run."""
    rule, rates = run.recipe.optimizer, run.rates
    return OptimizerConfig(
        learning_rate=rates.hyperball,
        adam_learning_rate=rates.adam,
        warmup_fraction=rule.warmup_share,
        final_share=rule.final_share,
        momentum=rule.momentum,
        newton_schulz_iterations=len(rule.newton_schulz),
        beta1=rule.beta1,
        beta2=rates.beta2,
        epsilon=rates.epsilon,
        newton_schulz_coefficients="quintic",
        norm_over="layer",
    )


def run_config(
    run: Rung, *, tokens: InputPath, mixture: InputPath, evaluation: InputPath, device_flops: float | None = None
) -> TrainConfig:
    """Returns the training config of a run: a rung stands for the large run, which is meant itself.

    Args:
        run: of a recipe.
        tokens: token store to train on.
        mixture: mixture over that store.
        evaluation: token store of the held-out sets.
        device_flops: peak FLOPs a second of one device, which utilisation is a share of; None: it is not reported.
    """
    recipe, horizon = run.recipe, run.horizon
    return TrainConfig(
        model=model_config(run),
        optimizer=optimizer_config(run),
        tokens=tokens,
        mixture=mixture,
        evaluation=evaluation,
        batch_sequences=horizon.batch_sequences,
        num_steps=horizon.num_steps,
        seed=recipe.seed,
        z_loss=recipe.z_loss,
        evaluate_every=1 / recipe.ladder_evaluations,
        checkpoint_every=run.checkpoints.every_steps / horizon.num_steps,
        simulated_budget_tokens=run.simulated_budget_tokens,
        real=run.is_target,
        racks=run.mesh.racks,
        spikes=SpikeConfig(),
        watch=WatchConfig(every=10, with_drops_until=EVALUATED_WITH_DROPS),
        peak_flops=None if device_flops is None else device_flops * run.mesh.devices,
    )


def run_resources(run: Rung, *, devices_per_process: int) -> Resources:
    """Returns the devices of a run, in processes of so many; a machine that lacks them refuses the step.

    Args:
        run: of a recipe.
        devices_per_process: accelerators of one machine; they divide those of a rack.
    """
    return Resources(gpus=devices_per_process, ranks=run.mesh.devices // devices_per_process)
