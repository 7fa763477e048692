// Which models of this machine `quire route` offers, under which names, and how an engine for each of them is started.
// Names are taken from what lies in a folder or from the command line, never put together to a path, so no request can
// name a file. Blocking: reads folders.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/keys.h"
#include "route/local_engines.h"

namespace quire {

// 1 to 255 bytes of UTF-8 without controls, slashes, backslashes and quotes; not "." or "..".
bool is_model_name(std::string_view name);

// Of `folder`: each GGUF file (of a split one all parts together) under its name without ending, each folder with a
// config.json and the weights that it says it has under its name. What has a name that is none goes into `left_out`, a
// path. Code::io where the folder cannot be read, Code::not_found where there is none of them.
Result<std::vector<LocalModel>> models_in(const std::string& folder, std::vector<std::string>& left_out);

// "NAME=PATH": a GGUF file, a folder, or the name of a model that was pulled.
Result<LocalModel> parse_local_model(const std::string& text);

// What `quire list` shows, under the names that it shows.
std::vector<LocalModel> pulled_local_models();

// Code::invalid where two have one name, naming both.
Status check_names(const std::vector<LocalModel>& models);

// What of models may change while the router runs. Values; read by one thread at a time.
struct LocalModelSource {
  std::string folder;                                   // --models; empty: none
  bool pulled = false;                                  // --pulled
  std::vector<LocalModel> named;                        // --model: these stay
  std::map<std::string, std::vector<std::string>> own;  // arguments of engines of these models
  std::vector<std::string> arguments;                   // of all others
  std::vector<ApiKey> keys;
  std::set<std::string> lost;  // paths that the last read() left out for their names

  bool changes() const { return !folder.empty() || pulled; }
  // All that there are now, with their commands. Of two with one name that of the command line is taken, else that of
  // the folder; the log is told once of what loses. An empty folder has none. Code::io where the folder cannot be read.
  Result<std::vector<LocalModel>> read();
};

// "NAME=VALUE" or "NAME", an option of `quire serve` without its dashes, as its arguments. Code::invalid where it has
// none of that name, or that is the router's: where an engine listens and who may ask it.
Result<std::vector<std::string>> serve_arguments(const std::vector<std::string>& options);

// "MODEL=NAME=VALUE", options of one model alone, as serve_arguments has those of all: behind `of_all`, and in place of
// what that says of the same names. The longest name that fits is meant. By the models' places. Code::invalid where no
// model has the name, and as serve_arguments.
Result<std::vector<std::vector<std::string>>> model_arguments(const std::vector<std::string>& options,
                                                              const std::vector<LocalModel>& models,
                                                              const std::vector<std::string>& of_all);

// The names behind `--prefix=NAME=…` and `--lora=NAME=…` among them.
std::vector<std::string> variants_of(const std::vector<std::string>& arguments);

// `quire serve` with these arguments, on a free port of this machine, for clients with these keys (their limits are
// asked elsewhere); nothing of our environment that begins with QUIRE_ counts for it.
ChildSpec serve_command(const LocalModel& model,
                        const std::vector<std::string>& arguments,
                        const std::vector<ApiKey>& keys);

}  // namespace quire
