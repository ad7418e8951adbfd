"""The model written a second time in NumPy float64, with loops over tokens, as an oracle for tests."""

import numpy as np


def silu(x):
    return x / (1 + np.exp(-x))


def rms(x, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def routed_experts(x, selected, weights, valid, gate, up, down, capacity):
    """Each token's weighted sum over its experts, taking rows in (token, choice) order, and the number of drops."""
    out, load, dropped = np.zeros_like(x), np.zeros(len(gate), int), 0
    for token in range(len(x)):
        for choice, expert in enumerate(selected[token]):
            if not valid[token]:
                continue
            if capacity is not None and load[expert] >= capacity:
                dropped += 1
                continue
            load[expert] += 1
            hidden = silu(x[token] @ gate[expert]) * (x[token] @ up[expert])
            out[token] += weights[token, choice] * (hidden @ down[expert])
    return out, dropped


def rotate(x, theta):
    """x[S, h]: the first half of the features is paired with the second."""
    length, width = x.shape
    half = width // 2
    angles = np.arange(length)[:, None] / theta ** (np.arange(half) / half)[None, :]
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=1)


def rotate_half(x, theta):
    """x[S, h]: features 0 and 1, 2 and 3, ... of the first half are the parts of complex numbers that turn."""
    length, width = x.shape
    pairs = width // 4
    turned = (x[:, 0 : 2 * pairs : 2] + 1j * x[:, 1 : 2 * pairs : 2]) * np.exp(
        1j * np.arange(length)[:, None] * theta ** (-np.arange(pairs) / pairs)[None, :]
    )
    out = x.copy()
    out[:, 0 : 2 * pairs : 2], out[:, 1 : 2 * pairs : 2] = turned.real, turned.imag
    return out


def convolve(taps, x, segments):
    """x[B, S, C]: each position's sum over itself and those before it, as far as they are of its document."""
    out = np.zeros_like(x)
    for row in range(x.shape[0]):
        for i in range(x.shape[1]):
            for lag in range(min(len(taps), i + 1)):
                if segments[row, i - lag] == segments[row, i]:
                    out[row, i] += taps[lag] * x[row, i - lag]
    return out


def norm(parameters, site, x, config):
    x = rms(x, config.norm_epsilon) * parameters[f"{site}_norm"]
    if config.gated_norm_rank is None:
        return x
    hidden = silu(x @ parameters[f"{site}_gated_norm_down"])
    return x / (1 + np.exp(-(hidden @ parameters[f"{site}_gated_norm_up"])))


def attend(layer, x, segments, config, number=0):
    is_global = config.global_every is not None and (
        (number + 1) % config.global_every == 0 or number + 1 == config.num_layers
    )
    keys = config.num_kv_heads or config.num_heads
    if is_global and config.num_global_kv_heads:
        keys = config.num_global_kv_heads
    window = config.attention_window if config.attention_window and not is_global else x.shape[1]
    turn = {"full": rotate, "half": rotate_half}[config.rotary]
    if is_global and not config.rotary_on_global:
        turn = lambda x, theta: x  # noqa: E731
    every_k = x @ layer["w_k"]
    if config.convolution_taps:
        every_k = convolve(layer["conv_k"], every_k, segments)
    out = np.zeros((*x.shape[:2], config.num_heads * config.head_width))
    for row in range(x.shape[0]):
        for head in range(config.num_heads):
            mine = slice(head * config.head_width, (head + 1) * config.head_width)
            key = head * keys // config.num_heads
            theirs = slice(key * config.head_width, (key + 1) * config.head_width)
            q, k, v = x[row] @ layer["w_q"][:, mine], every_k[row][:, theirs], x[row] @ layer["w_v"][:, theirs]
            q = turn(rms(q, 1e-6) * config.qk_scale, config.rope_theta)
            k = turn(rms(k, 1e-6), config.rope_theta)
            for i in range(x.shape[1]):
                seen = [j for j in range(i + 1) if segments[row, j] == segments[row, i] and i - j < window]
                scores = np.array([q[i] @ k[j] for j in seen]) / np.sqrt(config.head_width)
                weights = np.exp(scores - scores.max())
                y = (weights / weights.sum()) @ v[seen]
                if config.exclusive_attention:
                    y = y - (y @ v[i]) / (v[i] @ v[i] + 1e-6) * v[i]
                if config.head_gates:
                    y = y * 2 / (1 + np.exp(-x[row, i] @ layer["head_gate"][:, head]))
                out[row, i, mine] = y
    out = out @ layer["w_o"]
    return convolve(layer["conv_attention"], out, segments) if config.convolution_taps else out


def feed_forward(layer, x, valid, bias, config, capacity):
    logits = x @ layer["router"]
    selected = np.argsort(-(logits + bias), axis=1, kind="stable")[:, : config.experts_per_token]
    weights = 1 / (1 + np.exp(-np.take_along_axis(logits, selected, 1)))
    weights *= config.routing_sum / weights.sum(1, keepdims=True)
    experts = (layer[f"expert_{name}"] for name in ("gate", "up", "down"))
    if config.latent_width is None:
        out, dropped = routed_experts(x, selected, weights, valid, *experts, capacity)
    else:
        latent = rms(x @ layer["latent_down"], config.norm_epsilon) * layer["latent_norm"]
        out, dropped = routed_experts(latent, selected, weights, valid, *experts, capacity)
        out = out @ layer["latent_up"]
    for number in range(config.num_shared_experts):
        gate, up, down = (
            layer[name] if config.num_shared_experts == 1 else layer[name][number]
            for name in ("shared_gate", "shared_up", "shared_down")
        )
        out = out + silu(x @ gate) * (x @ up) @ down
    return out, dropped


def hidden_states(parameters, qb_betas, tokens, segments, config, capacity):
    """Final normed states [B, S, D] and drops by layer, all in float64."""
    exact = {name: np.asarray(value, np.float64) for name, value in parameters.items() if name != "layers"}
    x = norm(exact, "embedding", exact["token_embedding"][tokens], config)
    drops = []
    for number in range(config.num_layers):
        layer = {name: np.asarray(value[number], np.float64) for name, value in parameters["layers"].items()}
        x = x + attend(layer, norm(layer, "attention", x, config), segments, config, number)
        normed = norm(layer, "mlp", x, config)
        beta = np.asarray(qb_betas[number], np.float64)
        fed, dropped = feed_forward(
            layer, normed.reshape(-1, config.width), segments.reshape(-1) >= 0, beta.mean() - beta, config, capacity
        )
        fed = fed.reshape(x.shape)
        x = x + (convolve(layer["conv_mlp"], fed, segments) if config.convolution_taps else fed)
        drops.append(dropped)
    return norm(exact, "final", x, config), drops
