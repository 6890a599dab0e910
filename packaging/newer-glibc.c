/* Functions of the C library that the program calls and that older ones lack: packaging/build.sh links
   them in. Each is its system call; the program bears that an older kernel lacks it, too. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* glibc 2.34, Linux 5.9 */
int close_range(unsigned int first, unsigned int last, int flags) {
    return (int)syscall(SYS_close_range, first, last, flags);
}
