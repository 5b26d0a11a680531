"""FedAvg written a second time, in float64 NumPy, with explicit loops and gradients by hand.

Shares nothing with the engine but the order in which samples are visited.
"""

from collections.abc import Callable

import numpy as np

Weights = list[np.ndarray]
Gradient = Callable[[Weights, np.ndarray, np.ndarray], Weights]


def softmax_error(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """∂ mean cross-entropy / ∂ logits = (softmax − one-hot) / batch."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = shifted / shifted.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    return np.asarray(error / len(labels))


def mlp_gradient(weights: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
    """Backpropagation through x → relu(xW₁ + b₁) → hW₂ + b₂."""
    w1, b1, w2, b2 = weights
    x = x.reshape(len(x), -1)
    hidden = np.maximum(x @ w1 + b1, 0)
    error = softmax_error(hidden @ w2 + b2, y)
    back = (error @ w2.T) * (hidden > 0)
    return [x.T @ back, back.sum(0), hidden.T @ error, error.sum(0)]


def convolve(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """Direct convolution without padding: x (batch, h, w, in), kernel (k, k, in, out)."""
    size = kernel.shape[0]
    rows, columns = ((n - size) // stride + 1 for n in x.shape[1:3])
    out = np.zeros((len(x), rows, columns, kernel.shape[3]))
    for i in range(rows):
        for j in range(columns):
            field = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, i, j] = np.einsum("bklc,klco->bo", field, kernel) + bias
    return out


def convolve_back(
    x: np.ndarray, kernel: np.ndarray, error: np.ndarray, stride: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of a direct convolution with respect to its input, kernel and bias."""
    size = kernel.shape[0]
    to_x, to_kernel = np.zeros_like(x), np.zeros_like(kernel)
    for i in range(error.shape[1]):
        for j in range(error.shape[2]):
            rows, columns = slice(i * stride, i * stride + size), slice(j * stride, j * stride + size)
            to_kernel += np.einsum("bklc,bo->klco", x[:, rows, columns], error[:, i, j])
            to_x[:, rows, columns] += np.einsum("klco,bo->bklc", kernel, error[:, i, j])
    return to_x, to_kernel, error.sum(axis=(0, 1, 2))


def cnn_gradient(weights: Weights, x: np.ndarray, y: np.ndarray, stride: int = 2) -> Weights:
    """Backpropagation through two direct convolutions and a dense layer; kernels are (k, k, in, out)."""
    k1, b1, k2, b2, w3, b3 = weights
    first = np.maximum(convolve(x, k1, b1, stride), 0)
    second = np.maximum(convolve(first, k2, b2, stride), 0)
    flat = second.reshape(len(x), -1)
    error = softmax_error(flat @ w3 + b3, y)
    back = (error @ w3.T).reshape(second.shape) * (second > 0)
    to_first, to_k2, to_b2 = convolve_back(first, k2, back, stride)
    _, to_k1, to_b1 = convolve_back(x, k1, to_first * (first > 0), stride)
    return [to_k1, to_b1, to_k2, to_b2, flat.T @ error, error.sum(0)]


def fedavg_round(
    weights: Weights,
    silos: list[tuple[np.ndarray, np.ndarray]],
    visits: list[list[np.ndarray]],
    gradient: Gradient,
    rate: float,
    batch: int,
    proximal: float = 0.0,
    proportional: bool = False,
) -> Weights:
    """One round: silo n visits its samples in the order `visits[n][epoch]`, in batches, then Σ x_n w_n / Σ x_n.

    A batch that is not full takes a whole step or, if `proportional`, its share of one.
    """
    total = sum(len(epochs[0]) for epochs in visits)
    if total == 0:
        return weights
    mean = [np.zeros_like(w) for w in weights]
    for (images, labels), epochs in zip(silos, visits, strict=True):
        local = [w.copy() for w in weights]
        for order in epochs:
            for at in range(0, len(order), batch):
                rows = order[at : at + batch]
                share = len(rows) / batch if proportional else 1.0
                step = [share * g for g in gradient(local, images[rows], labels[rows])]
                local = [w - rate * (g + proximal * (w - w0)) for w, g, w0 in zip(local, step, weights, strict=True)]
        mean = [m + len(epochs[0]) / total * w for m, w in zip(mean, local, strict=True)]
    return mean
