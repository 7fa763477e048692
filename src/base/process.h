// What a process does about its standard streams and the signals of writing, before it opens a file. Main thread, once.
#pragma once

namespace quire {

// Gives 0, 1 and 2 to /dev/null where they came closed, so that no file or socket gets the number that the log writes
// to; and a file that has reached the size which the system lets it have is an error of its write (EFBIG), no signal.
void settle_process();

// A reader of our output who has gone is an error of the write (EPIPE). For what serves: a command in a pipe of the
// shell's ends quietly by the signal.
void outlive_readers();

}  // namespace quire
