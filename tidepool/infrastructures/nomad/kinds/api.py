"""How inputs say where Nomad's API is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidepool.cluster.failures import Permanent
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.jobspec import Constraint
from tidepool.infrastructures.nomad.token import TokenError, read_token
from tidepool.resources.reading import Reader


@dataclass(frozen=True, slots=True)
class ApiPlace:
    """Where it is, and the file of the token; the token itself is in no input."""

    address: str
    region: str | None
    token_file: str | None
    ca_file: str | None

    def open(self, environment: Mapping[str, str]) -> Api:
        """The API, with its token.

        Raises:
            Permanent: that cannot be read.
        """
        try:
            token = read_token(self.token_file, environment)
        except TokenError as error:
            raise Permanent(str(error)) from error
        return Api(self.address, token, region=self.region, ca_file=self.ca_file)


def read_api(reader: Reader) -> ApiPlace:
    """From the input ``api``."""
    told = reader.texts_by_name("api")
    for key in sorted(set(told) - {"address", "region", "tokenFile", "caFile"}):
        reader.refuse(f"api.{key}", "it is not known")
    if "address" not in told:
        reader.refuse("api.address", "it is missing")
    return ApiPlace(told.get("address", ""), told.get("region"), told.get("tokenFile"), told.get("caFile"))


def read_constraints(reader: Reader) -> tuple[Constraint, ...]:
    """From the input ``constraints``, ``LEFT OPERAND RIGHT`` each."""
    found = []
    for at, each in enumerate(reader.texts("constraints")):
        match each.split(" ", 2):
            case [left, operand, right]:
                found.append(Constraint(left, right, operand))
            case _:
                reader.refuse(f"constraints[{at}]", f"it is {each!r}; write it as in '${{meta.rack}} = r1'")
    return tuple(found)
