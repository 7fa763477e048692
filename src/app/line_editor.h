// Lines from a person: edited, with a history that is kept in a file, where stdin and stdout are terminals (libedit);
// read as they are from anything else.
//
// The terminal hands over every key at once and echoes none for as long as the editor lives, also between two lines:
// a switch at each line would reach what was typed just before it in the wrong mode (Ctrl-D would have become a NUL),
// and an answer that is being printed is not mixed with what is typed meanwhile. The state before is restored at the
// end, when the program is stopped by Ctrl-Z and when a signal ends it. The main thread only; one at a time.
#pragma once
#include <memory>
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

  // Without the line break; nothing at the end of the input, and after interrupt(), which drops what was typed.
  std::optional<std::string> read(const std::string& prompt);
  bool interactive() const { return terminal_ != nullptr; }
  bool interrupted() const;  // the last read was

  // Ends the read that is under way at the terminal; without one it does nothing. May be called by a signal handler.
  static void interrupt();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null where there is none
};

// Where histories lie by default: $XDG_STATE_HOME/quire/NAME or ~/.local/state/quire/NAME; empty without a home.
std::string history_path(const std::string& name);

}  // namespace quire
