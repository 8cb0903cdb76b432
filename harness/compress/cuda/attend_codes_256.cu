// attend_codes with head_dim 256.
#include "cuda/attend_launch.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<256>(const Segments& segments, const AttendLaunch& how) {
  launch_heads<8, 256>(segments, how);
}

}  // namespace kvc::KVC_DEVICE
