// The model that comes with the program, for when none is named.
#pragma once
#include <filesystem>
#include <string>

namespace quire {

inline constexpr const char* kBundledModel = "quill-q8_0.gguf";

// Where it is for a program in the folder `bin`: ../share/quire/models of an installation, or models/ of the sources
// for one in build/NAME of them. Empty where neither has it.
std::string bundled_model_from(const std::filesystem::path& bin);

// The same for the running program.
std::string bundled_model();

}  // namespace quire
