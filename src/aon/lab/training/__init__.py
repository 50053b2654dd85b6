"""One run: machine, network, training loop, checkpoints and saved weights."""
