"""How a model would lie over racks of devices: what each holds and sends, worked out without one. Loads no jax until it runs."""

import dataclasses
from dataclasses import dataclass

from marin_exec import ConfigError, Out, kind
from steps.config_checks import check_number
from steps.files import write_json
from steps.model.config import ModelConfig
from steps.train.language_model import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class LayoutConfig:
    """A training run and the devices to lay it over."""

    model: ModelConfig
    """The shape; it must have a `dispatch`."""
    optimizer: OptimizerConfig
    """What is kept for each parameter depends on its group."""
    batch_sequences: int
    """Sequences of one update, over all devices."""
    racks: int
    """Rows of devices, each with a copy of the experts."""
    devices_per_rack: int
    """Over which a layer's experts are divided."""

    def __post_init__(self) -> None:
        check_number(self, "batch_sequences", "racks", "devices_per_rack", low=1)
        if self.model.dispatch is None:
            raise ConfigError(
                "layout: the model has no dispatch; give it a PooledDispatch, e.g. with a shard for a device"
            )
        self.model.dispatch.check_batch(self.batch_sequences, "layout")


@dataclass(frozen=True)
class Layout:
    """What one device holds and sends; all devices are alike."""

    devices: int
    """In all racks."""
    total_parameters: int
    """Of the model; what the router is biased by is no parameter here."""
    experts_per_device: int
    """Routed experts of each layer."""
    parameters_per_device: int
    """Those that one device holds, copies of what others hold too included."""
    expert_parameters_per_device: int
    """Those of them that are routed experts'."""
    state_bytes_per_device: int
    """Parameters, gradients and optimiser in f32."""
    divided_state_bytes_per_device: int
    """The same, if every array lay on one device only: the least that is possible, which training does not do."""
    activation_bytes_per_layer: int
    """Of the layer at work, on one device (`steps.layout.activations`)."""
    rows_sent_per_layer: int
    """By one device in one direction: its pools, full or not."""
    all_to_alls_per_layer: int
    """Forward and backward, headers included."""
    all_to_all_bytes_per_layer: int
    """That one device gives to them, f32."""
    gradient_bytes_per_update: int
    """That one device gives to the sums of gradients over devices."""


@kind("model/layout", version=1)
def model_layout(config: LayoutConfig, out: Out) -> Layout:
    """Writes `layout.json`: every array with its share on a device, bytes by what they are, collectives one by one.

    Raises:
        ConfigError: experts, shards or batch can't be divided over the devices.
    """
    from steps.layout.activations import activation_bytes
    from steps.layout.state import state_layout
    from steps.layout.traffic import layer_traffic, update_traffic
    from steps.model.dispatch.placement import placed

    model, racks, columns = config.model, config.racks, config.devices_per_rack
    assert model.dispatch is not None, "checked when the config was made"
    placement = placed(
        model.dispatch,
        num_experts=model.num_experts,
        num_tokens=config.batch_sequences * model.sequence_length,
        choices=model.experts_per_token,
        racks=racks,
        columns=columns,
    )
    state = state_layout(model, config.optimizer, racks=racks, columns=columns)
    by_layer = layer_traffic(model, placement)
    by_update = update_traffic(state, racks=racks, columns=columns)
    activations = activation_bytes(model, placement)
    held = state.bytes_per_device
    all_to_alls = [each for each in by_layer if each.kind == "all-to-all"]
    result = Layout(
        devices=racks * columns,
        total_parameters=state.total_parameters,
        experts_per_device=model.num_experts // columns,
        parameters_per_device=state.parameters_per_device,
        expert_parameters_per_device=state.expert_parameters_per_device,
        state_bytes_per_device=held["parameters"] + held["gradients"] + held["optimizer"],
        divided_state_bytes_per_device=-(-state.whole_bytes // (racks * columns)),
        activation_bytes_per_layer=sum(activations.values()),
        rows_sent_per_layer=placement.send_rows,
        all_to_alls_per_layer=sum(each.forward + each.backward for each in all_to_alls),
        all_to_all_bytes_per_layer=sum(each.total_bytes for each in all_to_alls),
        gradient_bytes_per_update=sum(each.total_bytes for each in by_update),
    )
    page = {
        "summary": dataclasses.asdict(result),
        "state_bytes_per_device": held,
        "activation_bytes_per_layer": activations,
        "traffic_per_layer": [dataclasses.asdict(each) for each in by_layer],
        "traffic_per_update": [dataclasses.asdict(each) for each in by_update],
        "parameters": [dataclasses.asdict(each) for each in state.parameters],
        "optimizer": [dataclasses.asdict(each) for each in state.optimizer],
    }
    write_json(out.file("layout.json"), page)
    return result
