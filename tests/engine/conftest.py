from tests.engine.shared import (  # noqa: F401 - fixtures
    in_folder,
    in_postgres,
    in_s3,
    objectstore,
    place,
    postgres,
    shared,
)
