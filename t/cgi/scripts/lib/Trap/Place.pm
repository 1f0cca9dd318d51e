package Trap::Place;
use strict;
use warnings;

use File::Basename qw(dirname);
use lib dirname(__FILE__) . '/late';

1;
