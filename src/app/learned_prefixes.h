// --prefix NAME=DIR: learned beginnings from PEFT's folders, for the engine and for those who name them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "engine/virtual_tokens.h"
#include "model/learned_prefix.h"
#include "serve/served_prefix.h"

namespace quire {

void declare_prefix_option(CommandLine& line, std::vector<std::string>& options);

struct LearnedPrefixes {
  std::vector<ServedPrefix> served;
  std::vector<VirtualTokens> tokens;  // they write into the model that they were loaded for, which outlives them
};
// Code::invalid for what is no NAME=DIR, a name with ':' or one that is given twice; before there is a model.
Status check_prefixes(const std::vector<std::string>& options);
// Errors as load_learned_prefix's.
Result<LearnedPrefixes> load_prefixes(const std::vector<std::string>& options, const Model& model);

}  // namespace quire
