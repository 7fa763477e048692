// Lines from a person: edited, with a history that is kept in a file, where stdin and stdout are terminals (libedit);
// read as they are from anything else. The main thread only.
#pragma once
#include <optional>
#include <string>

namespace quire {

class LineEditor {
 public:
  // `history` may be empty: none is kept.
  explicit LineEditor(std::string history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Without the line break; nothing at the end of the input. Ctrl-C drops the line and asks anew.
  std::optional<std::string> read(const std::string& prompt);
  bool interactive() const { return interactive_; }

 private:
  std::string history_;
  bool interactive_;
};

// Where histories lie by default: $XDG_STATE_HOME/quire/NAME or ~/.local/state/quire/NAME; empty without a home.
std::string history_path(const std::string& name);

}  // namespace quire
