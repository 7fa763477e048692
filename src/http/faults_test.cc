// What fails in this program's tests: see faults_testing.h.
#include "http/faults_replaced.h"
