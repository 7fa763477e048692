// The text of package.py, for a Python to run.
#pragma once
#include <string_view>

namespace quire {

std::string_view package_script();

}  // namespace quire
