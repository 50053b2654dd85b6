"""The table of official files."""

import pytest

from aon.lab.data.official import CIFAR10, CIFAR100, OFFICIAL


def test_the_archives_have_the_official_md5s():
    assert (CIFAR10.archive, CIFAR10.archive_md5) == ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
    assert (CIFAR100.archive, CIFAR100.archive_md5) == ("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")


@pytest.mark.parametrize(("source", "n"), [(CIFAR10, 10), (CIFAR100, 100)])
def test_every_class_has_a_name(source, n):
    assert len(set(source.classes)) == len(source.classes) == n


@pytest.mark.parametrize("source", OFFICIAL.values())
def test_no_two_files_have_one_md5(source):
    md5s = [md5 for layout in source.layouts for md5 in layout.files.values()]
    assert len(set(md5s)) == len(md5s)
    assert all(len(md5) == 32 for md5 in md5s)
