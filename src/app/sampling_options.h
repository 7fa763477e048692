// How tokens are drawn where nobody says otherwise: an option of the command line, else what the model's own files
// recommend, else one table for all commands and dialects.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

#include "app/command.h"
#include "base/json.h"
#include "io/model_file.h"
#include "sample/sampling_params.h"
#include "serve/sampling_defaults.h"

namespace quire {

// Of the command line, by the names of request fields; below 0: not given.
struct SamplingChoice {
  std::map<std::string_view, double> numbers;
  std::map<std::string_view, int> integers;
};
// An option for each filter's field that has one: --temperature, --top-k, --top-p, --min-p. `choice` stays where it is.
void declare_sampling_options(CommandLine& line, SamplingChoice& choice);
Status check(const SamplingChoice& choice);

// The table, and over it what the file recommends: generation_config.json of a folder, general.sampling.* of a GGUF
// file. A value there that is none is left out.
SamplingDefaults model_sampling(const Metadata& meta);

// Over these what the command line says.
void apply(const SamplingChoice& choice, SamplingDefaults& defaults);

// What was given, as fields of a request.
void set_fields(const SamplingChoice& choice, Json& request);

// For requests that are made here instead of read.
SamplingParams sampling_params(const SamplingDefaults& defaults);

}  // namespace quire
