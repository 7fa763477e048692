#include "app/line_editor.h"

#include <editline/readline.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

namespace quire {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

std::string history_path(const std::string& name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/quire/" + name;
  if (home != nullptr && *home != '\0') return std::string(home) + "/.local/state/quire/" + name;
  return "";
}

LineEditor::LineEditor(std::string history)
    : history_(std::move(history)), interactive_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
  if (!interactive_) return;
  using_history();
  stifle_history(kHistoryLines);
  rl_bind_key('\t', rl_insert);  // no names of files
  if (!history_.empty()) read_history(history_.c_str());
}

LineEditor::~LineEditor() {
  if (!interactive_ || history_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(history_).parent_path(), error);
  const mode_t before = umask(0077);  // what somebody asked is nobody else's to read
  write_history(history_.c_str());
  umask(before);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (!interactive_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }
  const std::unique_ptr<char, decltype(&std::free)> line(readline(prompt.c_str()), &std::free);
  if (!line) return std::nullopt;
  if (*line != '\0') add_history(line.get());
  return std::string(line.get());
}

}  // namespace quire
