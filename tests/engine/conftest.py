from tests.engine.shared import in_folder, in_postgres, in_s3, place, shared  # noqa: F401 - fixtures
from tests.objectstore import objectstore  # noqa: F401
from tests.postgres import postgres  # noqa: F401
