# Hooks are kept by name, run in order, and one that dies does not stop the others.
use strict;
use warnings;

use Howdah;
use Test::More;

my @ran;
Howdah->after_fork(sub { push @ran, "first @_" });
Howdah->after_fork(sub { die "second\n" });
Howdah->after_fork(sub { push @ran, "third @_" });
Howdah->worker_exit(sub { push @ran, 'exit' });

ok(Howdah->has_hooks('after_fork'), 'there are some');
ok(!Howdah->has_hooks('before_fork'), '... and none of another name');

my @warnings;
{
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    Howdah->run_hooks(after_fork => 7);
}
is_deeply(\@ran, ['first 7', 'third 7'], 'in order, with the index');
is_deeply(\@warnings, ["the after_fork hook failed: second\n"], 'the one that died is named');

ok(!eval { Howdah->before_fork('name'); 1 }, 'only code is taken');
like($@, qr/^Howdah->before_fork takes a code reference at \Q$0\E/, '... with the caller\'s place');

done_testing;
