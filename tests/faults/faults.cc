// What fails in this program's tests: see http/faults_testing.h.
#include "http/faults_replaced.h"
