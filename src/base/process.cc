#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace quire {

void settle_process() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // the lowest free number: this one
  }
  ::signal(SIGXFSZ, SIG_IGN);
}

void outlive_readers() { ::signal(SIGPIPE, SIG_IGN); }

}  // namespace quire
