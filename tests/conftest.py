"""What all tests share."""

import hypothesis
import torch

# Tensors here are tiny: a second thread would only be waited for, and on a busy machine for long.
torch.set_num_threads(1)

# No test has an opinion on time; the examples are the same in every run, so that a failure can be seen again.
hypothesis.settings.register_profile("aon", deadline=None, derandomize=True)
hypothesis.settings.load_profile("aon")
