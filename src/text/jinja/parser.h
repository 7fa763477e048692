// Tokens to a Program.
#pragma once
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace quire::jinja {

// Code::invalid for syntax errors and passed limits, Code::unsupported for statements that chat templates do not use
// (include, import, extends, block, recursive loops). Messages name the line.
Result<std::unique_ptr<const Program>> parse_template(std::string_view source, const TemplateLimits& limits);

}  // namespace quire::jinja
