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


def attend(layer, x, segments, config):
    out = np.zeros_like(x)
    for row in range(x.shape[0]):
        for head in range(config.num_heads):
            part = slice(head * config.head_width, (head + 1) * config.head_width)
            q, k, v = (x[row] @ layer[name][:, part] for name in ("w_q", "w_k", "w_v"))
            q = rotate(rms(q, 1e-6) * config.qk_scale, config.rope_theta)
            k = rotate(rms(k, 1e-6), config.rope_theta)
            for i in range(x.shape[1]):
                seen = [j for j in range(i + 1) if segments[row, j] == segments[row, i]]
                scores = np.array([q[i] @ k[j] for j in seen]) / np.sqrt(config.head_width)
                weights = np.exp(scores - scores.max())
                out[row, i, part] = (weights / weights.sum()) @ v[seen]
    return out @ layer["w_o"]


def feed_forward(layer, x, valid, bias, config, capacity):
    logits = x @ layer["router"]
    selected = np.argsort(-(logits + bias), axis=1, kind="stable")[:, : config.experts_per_token]
    weights = 1 / (1 + np.exp(-np.take_along_axis(logits, selected, 1)))
    weights *= config.routing_sum / weights.sum(1, keepdims=True)
    experts = (layer[f"expert_{name}"] for name in ("gate", "up", "down"))
    routed, dropped = routed_experts(x, selected, weights, valid, *experts, capacity)
    shared = silu(x @ layer["shared_gate"]) * (x @ layer["shared_up"]) @ layer["shared_down"]
    return routed + shared, dropped


def hidden_states(parameters, qb_betas, tokens, segments, config, capacity):
    """Final normed states [B, S, D] and drops by layer, all in float64."""
    exact = {name: np.asarray(value, np.float64) for name, value in parameters.items() if name != "layers"}
    x = rms(exact["token_embedding"][tokens], config.norm_epsilon) * exact["embedding_norm"]
    drops = []
    for number in range(config.num_layers):
        layer = {name: np.asarray(value[number], np.float64) for name, value in parameters["layers"].items()}
        x = x + attend(layer, rms(x, config.norm_epsilon) * layer["attention_norm"], segments, config)
        normed = rms(x, config.norm_epsilon) * layer["mlp_norm"]
        beta = np.asarray(qb_betas[number], np.float64)
        fed, dropped = feed_forward(
            layer, normed.reshape(-1, config.width), segments.reshape(-1) >= 0, beta.mean() - beta, config, capacity
        )
        x = x + fed.reshape(x.shape)
        drops.append(dropped)
    return rms(x, config.norm_epsilon) * exact["final_norm"], drops
