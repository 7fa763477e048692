// The option --context-shift: what endless generation goes on seeing.
#pragma once
#include <string>

#include "app/command.h"
#include "app/wire.h"
#include "base/result.h"
#include "model/model.h"

namespace quire {

void declare_shift_option(CommandLine& line, ModelOptions& options);

// "sinks=S,window=W"; empty: no shift. Code::invalid names part, range and value.
Result<ContextShift> parse_context_shift(const std::string& text);

}  // namespace quire
