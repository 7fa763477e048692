// A Hugging Face folder's config.json and generation_config.json as facts: every value under "hf." and
// "hf_generation.", members of objects joined by dots ("hf.rope_scaling.factor"). Of a model with several parts the
// text's own configuration ("text_config") stands in for the whole. Which of these facts mean what is for the
// architecture's table of names to say (model/hf_names.h). Nothing in a config is ever executed: "auto_map" is a
// string.
#pragma once
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "io/model_file.h"

namespace quire {

inline constexpr std::string_view kHfPrefix = "hf.";
inline constexpr std::string_view kHfGenerationPrefix = "hf_generation.";
inline constexpr size_t kMaxConfigBytes = size_t{4} << 20;

// `config` as above. Arrays of numbers and of strings are kept, nulls and other arrays are left out.
// Code::corrupt when it is no object.
Result<Metadata> read_hf_config(const Json& config);
// Adds the other file's facts; those of config.json stay as they are.
Status add_hf_generation_config(const Json& config, Metadata& meta);

}  // namespace quire
