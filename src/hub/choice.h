// Which files of a repository make a model that can be opened. Pure, any thread.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/repo.h"

namespace quire {

struct HubChoice {
  std::vector<HubFile> files;  // in the order in which they are fetched
  std::string entry;           // of these, the file that a command takes as its MODEL; empty: their folder
};

// `wanted` names a file by its path or by the end of it, any part of a split GGUF standing for all of them, or a GGUF
// file by its tag ("Q4_K_M", any case). Empty: of GGUF files the only one, else Q4_K_M, then what comes nearest to it
// in quality, Q8_0 and on; where there is no GGUF file, config.json, *.safetensors and the tokenizer's files at the
// root. Code::not_found or Code::invalid list what there is.
Result<HubChoice> choose_files(std::span<const HubFile> files, std::string_view wanted);

// Every GGUF model of which all parts are there, or else the folder that choose_files would take.
std::vector<HubChoice> all_models(std::span<const HubFile> files);

}  // namespace quire
