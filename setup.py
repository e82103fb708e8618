"""Packaging of mgw, the model gateway."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
ABOUT = (HERE / "mgw/__init__.py").read_text(encoding="utf-8")
[NAME] = re.findall(r'^DISTRIBUTION = "(.+)"$', ABOUT, re.MULTILINE)
[VERSION] = re.findall(r'^__version__ = "(.+)"$', ABOUT, re.MULTILINE)

TESTS = [
    "docutils>=0.21,<1",
    "anthropic>=2.14,<3",
    "boto3>=1.44,<2",  # signs and reads what Amazon's clients do, and what Anthropic's SDK for Bedrock needs
    "google-auth>=2.60,<3",  # verifies what we sign for service accounts
    "google-genai>=3.6,<4",
    "hypothesis>=6.170,<7",
    "jsonschema>=4.26,<5",  # what an editor says of a file, to compare it with what the loader says
    "openai>=3.57,<4",
    "pyjwt>=2.15,<3",  # verifies tokens of issuers too, as a second opinion
    "pytest>=9.2,<10",
    "pytest-timeout>=2.4,<3",
    "pytest-xdist>=3.8,<4",
    "websockets>=17.4,<18",  # what the SDKs' realtime clients dial with
    "wsproto>=1.3,<2",
]
OTLP = [
    "opentelemetry-exporter-otlp-proto-common>=1.45,<2",
    "opentelemetry-proto>=1.45,<2",
    "opentelemetry-sdk>=1.45,<2",
]
LINT = [
    "import-linter>=2.16,<3",
    "mypy==2.4.1",
    "mypy-zope==1.0.17",
    "ruff==0.17.6",
    "types-docutils",
    "types-PyYAML>=6.0.12",
]
REDIS = ["hiredis>=3.3,<4"]  # the parser of Redis' protocol, by the makers of Redis
DASHBOARD: list[str] = []  # what it needs is always installed; the extra remains for commands that name it
DOCS = ["docutils>=0.21,<1", "furo>=2025.12", "sphinx>=9,<10", "sphinx-copybutton>=0.5.2,<1"]
# Other gateways' converters and an exact tokenizer; they go into an environment of their own.
BENCH = [
    "autobahn[twisted]==26.10.2",
    "bpe-openai==0.1.4",
    "litellm[proxy]==1.106.2",
    "llm-rosetta==0.13.0",
    "orjson==3.13.0",
]

# The tools that make a release; they go into an environment of their own.
RELEASE = [
    "build>=1.6,<2",
    "cyclonedx-bom>=7,<8",
    "pip-audit>=2.10,<3",
]

DOCUMENTS = sorted((HERE / "docs").glob("*.rst"))
PICTURES = sorted((HERE / "docs" / "images").iterdir())
EXAMPLES = sorted(path.relative_to(HERE / "etc") for path in (HERE / "etc").rglob("*") if path.is_file())


class BuildWithExamples(build_py):
    """Put the example configurations and the schema into the package, where ``mgw example`` finds them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "mgw", "etc")
        for name in EXAMPLES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / "etc" / name, folder / name)


setup(
    name=NAME,  # not that of the package: `mgw` on PyPI is another project
    version=VERSION,
    description="A gateway for clients and providers of the OpenAI, Anthropic and Gemini APIs",
    long_description=(HERE / "README.rst").read_text(encoding="utf-8"),
    long_description_content_type="text/x-rst",
    author="the mgw authors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=["LLM", "gateway", "proxy", "OpenAI", "Anthropic", "Gemini", "Twisted"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: No Input/Output (Daemon)",
        "Framework :: Twisted",
        "Intended Audience :: Developers",
        "Intended Audience :: System Administrators",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Internet :: Proxy Servers",
        "Topic :: Internet :: WWW/HTTP :: HTTP Servers",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    cmdclass={"build_py": BuildWithExamples},
    data_files=[
        ("share/bash-completion/completions", ["etc/completion/bash/mgw"]),
        ("share/fish/vendor_completions.d", ["etc/completion/fish/mgw.fish"]),
        ("share/zsh/site-functions", ["etc/completion/zsh/_mgw"]),
        ("share/doc/mgw", ["README.rst", "CHANGELOG.rst", *(f"docs/{path.name}" for path in DOCUMENTS)]),
        ("share/doc/mgw/images", [f"docs/images/{path.name}" for path in PICTURES]),
    ],
    packages=[*find_packages(include=["mgw", "mgw.*", "mgw_sim", "mgw_sim.*"]), "twisted.plugins"],
    package_data={"mgw": ["py.typed", "dashboard/static/**"], "mgw_sim": ["py.typed"]},
    include_package_data=True,
    install_requires=[
        "autobahn>=26.10.2,<27",
        "brotli>=1.2,<2",
        "cryptography>=46",  # signs for service accounts
        "httptools>=0.9,<0.10",
        "itsdangerous>=2.2,<3",  # signs the cookies of the dashboard
        "klein>=24.8,<25",
        "msgspec>=0.22,<0.23",
        "prometheus-client>=0.26,<1",
        "pydantic>=2.14,<3",
        "pyopenssl>=26.4",
        "pyyaml>=6.0.3,<7",
        "service-identity>=26.1",
        "treq>=26.7,<27",
        "twisted>=26.10,<27",
        "tzdata>=2026.1",  # time zones, where the system has none
        "werkzeug>=3.1,<4",  # the map of Klein, whose errors and converters have names there
        "wsproto>=1.3.2,<2",  # the simulator's end of a WebSocket, which shares no code with the gateway's
        "zstandard>=0.25,<1",
    ],
    extras_require={
        "bench": BENCH,
        "dashboard": DASHBOARD,
        "docs": DOCS,
        "lint": LINT,
        "otlp": OTLP,
        "redis": REDIS,
        "release": RELEASE,
        "tests": TESTS,
        "dev": [*DOCS, *LINT, *OTLP, *REDIS, *TESTS],
    },
    entry_points={"console_scripts": ["mgw = mgw.cli.main:main"]},
    zip_safe=False,
)
