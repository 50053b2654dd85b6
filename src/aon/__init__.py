"""Weight matrices that stay nearly orthonormal while they train."""

__version__ = "0.1.0"
