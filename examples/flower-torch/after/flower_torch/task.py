"""Model, data and training."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """A small CNN for 8 × 8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 3 * 3, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))


def load_data(partition_id: int, num_partitions: int, batch_size: int) -> tuple[DataLoader, DataLoader]:
    """One silo's part of the digits, split into training and test data."""
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(digits.target)
    own = torch.arange(partition_id, len(y), num_partitions)
    data = TensorDataset(x[own], y[own])
    test_size = len(data) // 5
    parts = [len(data) - test_size, test_size]
    train, test = random_split(data, parts, generator=torch.Generator().manual_seed(42))
    return DataLoader(train, batch_size=batch_size, shuffle=True), DataLoader(test, batch_size=batch_size)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Train the model, and return the mean loss."""
    optimiser = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimiser.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            optimiser.step()
            total += loss.item()
    return total / (epochs * len(loader))


def test(net: nn.Module, loader: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy."""
    loss, right = 0.0, 0
    with torch.no_grad():
        for images, labels in loader:
            outputs = net(images)
            loss += F.cross_entropy(outputs, labels).item()
            right += int((outputs.argmax(1) == labels).sum())
    return loss / len(loader), right / len(loader.dataset)
