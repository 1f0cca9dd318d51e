#!/usr/bin/perl
# A death with an object.
package Trap::Error { use overload '""' => sub { "an object says $_[0]{what}\n" } }
die bless {what => 'no'}, 'Trap::Error';
