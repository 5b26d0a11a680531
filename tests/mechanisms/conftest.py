from tests.economy.conftest import double_precision as double_precision
