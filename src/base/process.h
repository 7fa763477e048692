// What a process does about its standard streams and about signals. The functions: main thread, once, before a file is
// opened.
#pragma once
#include <string>

namespace quire {

// Gives 0, 1 and 2 to /dev/null where they came closed, so that no file or socket gets the number that the log writes
// to; and a file that has reached the size which the system lets it have is an error of its write (EFBIG), no signal.
void settle_process();

// A reader of our output who has gone is an error of the write (EPIPE). For what serves: a command in a pipe of the
// shell's ends quietly by the signal.
void outlive_readers();

// While it lives, a signal that would end the process (INT, TERM, HUP, PIPE) first removes the file: an unfinished one.
// Signals that are ignored or handled by others stay so. Of several that live at once the first alone does something.
class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(std::string path);
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;

 private:
  const std::string path_;
  bool is_first_ = false;
};

}  // namespace quire
