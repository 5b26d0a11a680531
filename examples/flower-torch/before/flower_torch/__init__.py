"""An ordinary Flower app on PyTorch."""
