// --lora NAME=PATH: adapters that a model has from the start.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/wire.h"
#include "serve/adapters.h"

namespace quire {

void declare_lora_option(CommandLine& line, std::vector<std::string>& options);

// The same for a command that answers with one: at most one is given, which answers.
void declare_one_lora_option(CommandLine& line, std::vector<std::string>& options);
Status check_one_adapter(const std::vector<std::string>& options);
// Its name; empty: none is given.
std::string name_of_adapter(const std::vector<std::string>& options);

// What is asked for, before there is a model. `names` are taken. Code::invalid for what is no NAME=PATH, a name that is
// none or that is given twice.
Status check_adapters(const std::vector<std::string>& options,
                      const std::vector<std::string>& names,
                      const ServeLimits& limits);
// Bytes of memory that they take together, about: twice their files, whose numbers of 16 bits may become floats, and no
// more than the limit. What is not there counts nothing.
int64_t adapter_bytes_of(const std::vector<std::string>& options, const ServeLimits& limits);
// A table for this model, loaded as `model` says, which outlives it, with these adapters. Errors as load_lora's, with
// the option in front.
Result<std::unique_ptr<AdapterTable>> load_adapters(const std::vector<std::string>& options,
                                                    const ModelOptions& model,
                                                    const LoadedModel& loaded,
                                                    const ServeLimits& limits);

}  // namespace quire
