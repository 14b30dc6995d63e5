"""Write the `dagster.yaml` of a profile's home, as a deployment does before its services start.

CPMI_PROFILE=paper CPMI_HOME=/data python -m cpmi_dagster.resources.dag.write_configuration
"""

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import write_dagster_yaml

if __name__ == "__main__":
    try:
        write_dagster_yaml(load_settings())
    except CpmiError as error:
        raise SystemExit(f"error: {error}") from None
