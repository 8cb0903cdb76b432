// attend_codes with head_dim 96.
#include "cuda/attend_launch.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<96>(const Segments& segments, const AttendLaunch& how) {
  launch_heads<8, 96>(segments, how);
}

}  // namespace kvc::KVC_DEVICE
