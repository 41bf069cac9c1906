"""`python -m tgpu.cli`."""

import sys

from tgpu.cli.main import main

sys.exit(main())
