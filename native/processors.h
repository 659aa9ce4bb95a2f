// How many processors this process may use. Includes nothing of halfulp.
#pragma once

namespace halfulp {

// As many as the affinity mask has, unless the CPU quota of a container is less; at least 1.
int usable_processors();

// Of the control groups of this process and those around them, the least quota of
// processor time in processors, rounded up; 0 if there is none. `root` stands before the
// paths of /proc and of the file systems of control groups: "" but for tests.
int processor_quota(const char* root);

}  // namespace halfulp
