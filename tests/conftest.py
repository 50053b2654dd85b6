"""What all tests share."""

import torch

# Tensors here are tiny: a second thread would only be waited for, and on a busy machine for long.
torch.set_num_threads(1)
