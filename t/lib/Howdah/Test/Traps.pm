package Howdah::Test::Traps;

# The scripts of t/cgi/scripts, and what each must answer in a mode of running them: t/cgi/traps.json.
#
#   my $traps = Howdah::Test::Traps->new(mode => 'exec');
#   $traps->check($port, sub { $server->log });    # a subtest for each script; the log is looked at where the table has one
#   Howdah::Test::Traps->new(mode => 'exec', skip => 'cgi');       # what a process answers, but only what Apache's mod_cgi can
#   my $heard = $traps->ask($port, 'data.cgi');    # the responses, for comparisons between modes
use strict;
use warnings;

use Howdah::Test::Client;
use Howdah::Test::File qw(read_file);
use JSON::PP ();
use Test::More;
use Time::HiRes qw(sleep time);

use constant {DIRECTORY => 't/cgi/scripts', MOUNT => '/cgi', PATIENCE => 20};

sub new {
    my ($class, %given) = @_;
    my $table = JSON::PP::decode_json(read_file('t/cgi/traps.json'));
    return bless {%given, traps => $table->{traps}}, $class;
}

# Names of the scripts that this mode is asked for and that can run here, in the order of the table.
sub scripts {
    my $self = shift;
    my $mode = $self->{skip} // $self->{mode};
    return map { $_->{script} } grep { !($_->{but}{$mode} // {})->{skip} && _has($_->{needs}) } @{$self->{traps}};
}

# All rows of the table.
sub rows { return @{$_[0]{traps}} }

# What is expected in this mode: the row of the table, with what differs.
sub row {
    my ($self, $script) = @_;
    my ($row) = grep { $_->{script} eq $script } @{$self->{traps}};
    return {%$row, %{$row->{but}{$self->{mode}} // {}}};
}

# The responses to what the table asks of a script, in order.
sub ask {
    my ($self, $port, $script) = @_;
    my $row = $self->row($script);
    return [map { _exchange($port, $script, $_) } @{$row->{ask} // [{}, {}, {}]}];
}

sub check {
    my ($self, $port, $log, @scripts) = @_;
    for my $script (@scripts ? @scripts : $self->scripts) {
        my $row = $self->row($script);
        subtest "$script: $row->{says}" => sub { $self->_check_row($port, $log, $row) };
    }
    return;
}

# How the answers of another server differ from those of this mode: texts, none when they are the same.
sub differences {
    my ($self, $port, $script) = @_;
    my $row   = $self->row($script);
    my @heard = @{$self->ask($port, $script)};
    my @found =
        map { _faults($heard[$_], $row->{answers}[$_] // $row->{answers}[-1], @heard > 1 ? $_ + 1 : 0) } 0 .. $#heard;
    push @found, 'not each answer is another' if $row->{differ} && _different(map { $_->{body} } @heard) != @heard;
    return @found;
}

sub _faults {
    my ($heard, $wanted, $which) = @_;
    my $status = $wanted->{status} // 200;
    my $where  = $which ? " (request $which)" : '';
    return "no answer$where" if !$heard->{status};
    return "$heard->{status}, not $status$where" if $heard->{status} != $status;
    my $same = 1;
    $same &&= $heard->{body} eq $wanted->{body} if defined $wanted->{body};
    $same &&= $heard->{body} =~ /$wanted->{like}/ if defined $wanted->{like};
    $same &&= length $heard->{body} == $wanted->{length} if defined $wanted->{length};
    return if $same && !$heard->{error};
    my $shown = substr $heard->{body} =~ s{\n}{ / }gr, 0, 100;
    return "$shown$where";
}

sub _check_row {
    my ($self, $port, $log, $row) = @_;
    my $from  = $row->{at_start} ? 0 : length $log->();
    my $since = time;
    my @heard = @{$self->ask($port, $row->{script})};
    for my $i (0 .. $#heard) {
        _check_answer($heard[$i], $row->{answers}[$i] // $row->{answers}[-1], 'request ' . ($i + 1));
    }
    cmp_ok time - $since, '<', $row->{within}, 'in time' if $row->{within};
    is + (() = _different(map { $_->{body} } @heard)), scalar @heard, 'each answer is another' if $row->{differ};
    return if !defined $row->{log};
    my $said = '';
    my $end  = time + PATIENCE;
    sleep 0.02 until ($said = substr $log->(), $from) =~ /$row->{log}/ || time > $end;
    like $said, qr/$row->{log}/, 'the log';
    return;
}

sub _check_answer {
    my ($heard, $wanted, $what) = @_;
    is $heard->{error}, '', "$what is answered";
    is $heard->{status}, $wanted->{status} // 200, '... with that status';
    is $heard->{body}, $wanted->{body}, '... and body' if defined $wanted->{body};
    like $heard->{body}, qr/$wanted->{like}/, '... and such a body' if defined $wanted->{like};
    is length $heard->{body}, $wanted->{length}, '... and as much' if defined $wanted->{length};
    is $heard->{headers}{$_}[0], $wanted->{headers}{$_}, "... and $_" for sort keys %{$wanted->{headers} // {}};
    return;
}

sub _exchange {
    my ($port, $script, $ask) = @_;
    my $body  = $ask->{fill} ? 'x' x $ask->{fill} : $ask->{body} // '';
    my $query = defined $ask->{query} ? "?$ask->{query}" : '';
    my %lines =
        (Host => 'traps.example', %{$ask->{headers} // {}}, length $body ? ('Content-Length' => length $body) : ());
    my $head = join '', map { "$_: $lines{$_}\r\n" } sort keys %lines;
    my $line = join ' ', $ask->{method} // 'GET', MOUNT . "/$script" . ($ask->{path} // '') . $query, 'HTTP/1.1';
    return Howdah::Test::Client->ask($port, "$line\r\n$head\r\n$body");
}

sub _different {
    my %seen = map { $_ => 1 } @_;
    return keys %seen;
}

sub _has {
    my $module = shift // return 1;
    return eval "require $module; 1";    ## no critic (ProhibitStringyEval)
}

1;
