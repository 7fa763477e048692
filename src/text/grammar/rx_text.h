// Many literals as one expression in the shape of their trie, so that a step looks at one branch and not at each text.
#pragma once
#include <string>
#include <vector>

#include "text/grammar/rx.h"

namespace quire::grammar {

// Any of `texts`, byte for byte.
Rx one_of_texts(RxStore& rx, std::vector<std::string> texts);

}  // namespace quire::grammar
