// The last step of every front end: a network and its expressions become a Grammar.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/network.h"

namespace quire::grammar {

// `builder` and `rx` are used up. Errors as NetworkBuilder::finish.
Result<std::shared_ptr<const Grammar>> finish(NetworkBuilder& builder,
                                              RxStore& rx,
                                              Rule root,
                                              std::vector<std::string> warnings);

}  // namespace quire::grammar
