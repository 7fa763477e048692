// See rx_text.h: the trie is built from its leaves, over the sorted texts, with a stack as deep as the longest text.
#include "text/grammar/rx_text.h"

#include <algorithm>

namespace quire::grammar {

Rx one_of_texts(RxStore& rx, std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  struct Open {
    std::vector<Rx> branches;  // that end with the text before
    bool ends = false;         // a text ends here
  };
  std::vector<Open> path(1);
  std::string before;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      Open& last = path.back();
      if (last.ends) last.branches.push_back(RxStore::kEmpty);
      const Rx inner = rx.alt(std::move(last.branches));
      path.pop_back();
      path.back().branches.push_back(rx.cat(rx.byte(static_cast<uint8_t>(before[path.size() - 1])), inner));
    }
  };
  for (const std::string& text : texts) {
    const size_t n = std::min(text.size(), before.size());
    const size_t common = static_cast<size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<ptrdiff_t>(n), before.begin()).first - text.begin());
    close(common);
    path.resize(text.size() + 1);
    path.back().ends = true;
    before = text;
  }
  close(0);
  if (path[0].ends) path[0].branches.push_back(RxStore::kEmpty);
  return rx.alt(std::move(path[0].branches));
}

}  // namespace quire::grammar
