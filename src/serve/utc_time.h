#include "base/utc_time.h"
